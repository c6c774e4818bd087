-- Reads a request and registers a replica that waits for it, besides others.
-- KEYS  1 the request's record
-- ARGV  1 team, 2 replica ('' to read only)
-- Answers {} if there is no such request of this team, else
--   {state, file name, enqueued ms, object, offset, length, error, batch, position, size, seconds, finished ms}
local f = redis.call('HMGET', KEYS[1], 'tm', 'hd', 'st', 'fn', 'at', 'rk', 'ro', 'rl', 'er', 'b', 'ps', 'bs', 'sec', 'fin')
if f[1] ~= ARGV[1] then return {} end
if ARGV[2] ~= '' and (f[3] == 'q' or f[3] == 's') and f[2] ~= ARGV[2] then
  redis.call('HSET', KEYS[1], 'hd', f[2] == '' and ARGV[2] or '*')
end
local answer = {}
for i = 3, 14 do answer[#answer + 1] = f[i] or '' end
return answer
