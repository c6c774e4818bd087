-- The document was opened: records its number of selected pages and issues the first units.
-- ARGV  epoch, now ms, total, chunk, window, then field, value …
-- Answers the units to queue; none if this came late.
local epoch, now = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HGET', JOB, 'status') ~= 'processing' or not wanted('split', epoch) then
  count_late(1)
  return {}
end
local fields = {}
for i = 6, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HDEL', WORK, 'split')
redis.call('HSET', JOB, 'total', ARGV[3], 'chunk', ARGV[4], 'window', ARGV[5], 'next', 0, 'out', 0, 'slow_out', 0,
  'slow_total', 0, 'done', 0, 'failed', 0, 'split.status', 'completed', 'split.completed_at', now, unpack(fields))
local units = {}
refill(units, epoch, now)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
emit_status(now)
return units
