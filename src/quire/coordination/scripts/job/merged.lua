-- The merge is done: the job is completed, once, and its page records leave Redis.
-- ARGV  epoch, now ms, ttl ms, result (JSON)
-- Answers {1, unit …} if this merge counts, {0} if it came late.
local epoch, now, ttl = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if redis.call('HGET', JOB, 'status') ~= 'processing' or not wanted('merge', epoch) then
  count_late(1)
  return {0}
end
redis.call('HSET', JOB, 'merge.status', 'completed', 'merge.completed_at', now, 'result', ARGV[4], 'error', '')
redis.call('DEL', PAGES)
local units = {}
finish(units, 'completed', now, ttl)
return {1, unpack(units)}
