-- The download is done: the document is in the object plane and can be split.
-- ARGV  epoch, now ms, then field, value …
-- Answers the units to queue; none if the result came late.
local epoch, now = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('HGET', JOB, 'status') ~= 'processing' or not wanted('download', epoch) then
  count_late(1)
  return {}
end
local fields = {}
for i = 3, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HDEL', WORK, 'download')
redis.call('HSET', JOB, 'download.status', 'completed', 'download.completed_at', now,
  'split.status', 'queued', 'split.created_at', now, unpack(fields))
local units = {}
add_unit(units, 'split', epoch, now)
redis.call('PEXPIRE', WORK, redis.call('PTTL', JOB))
emit_status(now)
return units
