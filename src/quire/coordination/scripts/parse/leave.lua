-- Records that callers left. A request without an Idempotency-Key is deleted unless it is already in a batch.
-- KEYS  1 queue, 2 segments, 3 stats; then each request's record
-- ARGV  1 replica, 2 '1' to keep them all (their callers were told how to get the result), then the ids
-- Answers the objects whose bodies are not needed any more.
local unneeded = {}
for i = 3, #ARGV do
  local record = KEYS[i + 1]
  local f = redis.call('HMGET', record, 'st', 'hd', 'ky', 'sg')
  if f[2] == ARGV[1] then
    if f[1] == 'q' and f[3] ~= '1' and ARGV[2] ~= '1' then
      redis.call('ZREM', KEYS[1], ARGV[i])
      redis.call('DEL', record)
      redis.call('HINCRBY', KEYS[3], 'dropped', 1)
      if redis.call('HINCRBY', KEYS[2], f[4], -1) <= 0 then
        redis.call('HDEL', KEYS[2], f[4])
        unneeded[#unneeded + 1] = f[4]
      end
    elseif f[1] then
      redis.call('HSET', record, 'hd', '')
    end
  end
end
return unneeded
