-- Ends a running job as failed or cancelled.
-- ARGV  status, now ms, ttl ms, error (JSON or ''), unit that failed ('' if none), its epoch (0 = any),
--       status that it must have ('' = any that has not ended)
-- Answers {1, unit …} if this ended it, {0, status} if it had ended before, {-1} if there is no such job.
local status, now, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local current = redis.call('HGET', JOB, 'status')
if not current then return {-1} end
if terminal(current) or (ARGV[7] ~= '' and ARGV[7] ~= current) then return {0, current} end
local epoch = tonumber(ARGV[6])
if ARGV[5] ~= '' then
  if not wanted(ARGV[5], epoch) then return {0, current} end
  if ARGV[5] == 'split' or ARGV[5] == 'merge' or ARGV[5] == 'download' then
    redis.call('HSET', JOB, ARGV[5] .. '.status', status, ARGV[5] .. '.completed_at', now,
      ARGV[5] .. '.error', ARGV[4])
  end
end
for _, child in ipairs({'download', 'split', 'merge'}) do
  local state = redis.call('HGET', JOB, child .. '.status')
  if state == 'queued' or state == 'processing' then
    redis.call('HSET', JOB, child .. '.status', status, child .. '.completed_at', now)
  end
end
redis.call('HSET', JOB, 'error', ARGV[4])
local units = {}
finish(units, status, now, ttl)
return {1, unpack(units)}
