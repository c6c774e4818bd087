-- Takes a token from a client's bucket, which is refilled evenly over a minute.
-- KEYS  1 the bucket   ARGV  1 now ms, 2 size
-- Answers 0 if the request is permitted, else the ms until one is.
local now, size = tonumber(ARGV[1]), tonumber(ARGV[2])
local f = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = size
if f[1] then left = math.min(size, tonumber(f[1]) + math.max(0, now - tonumber(f[2])) * size / 60000) end
local wait = 0
if left >= 1 then left = left - 1 else wait = math.ceil((1 - left) * 60000 / size) end
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', now)
redis.call('PEXPIRE', KEYS[1], 61000)
return wait
