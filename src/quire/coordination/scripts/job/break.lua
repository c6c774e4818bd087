-- Ends a job that a script could not process (a key of another type, a defect in the script) as failed.
-- Keys of another type than theirs are deleted first. A job that has ended only loses the unit.
-- ARGV  now ms, ttl ms, error (JSON), unit that could not be processed ('' if none)
-- Answers {1, unit …} if this ended it, {0} if it had ended before or its record can't be read.
local now, ttl = tonumber(ARGV[1]), tonumber(ARGV[2])
local types = {'hash', 'hash', 'hash', 'zset', 'stream'}
for i = 2, 5 do
  local found = redis.call('TYPE', KEYS[i]).ok
  if found ~= 'none' and found ~= types[i] then redis.call('DEL', KEYS[i]) end
end
if redis.call('TYPE', JOB).ok ~= 'hash' then return {0} end
local status = redis.call('HGET', JOB, 'status')
if not status or terminal(status) then
  redis.call('HDEL', WORK, ARGV[4])
  return {0}
end
for _, child in ipairs({'download', 'split', 'merge'}) do
  local state = redis.call('HGET', JOB, child .. '.status')
  if state == 'queued' or state == 'processing' then
    redis.call('HSET', JOB, child .. '.status', 'failed', child .. '.completed_at', now)
    if child == ARGV[4] then redis.call('HSET', JOB, child .. '.error', ARGV[3]) end
  end
end
redis.call('HSET', JOB, 'error', ARGV[3])
local units = {}
finish(units, 'failed', now, ttl)
return {1, unpack(units)}
