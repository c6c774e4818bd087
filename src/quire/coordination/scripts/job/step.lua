-- Starts a step of a vault document for an attempt: creates its job, or a new epoch of the job of an earlier attempt,
-- whether that has ended or not. Does nothing for the current or an older attempt.
-- ARGV  unit, attempt, now ms, ttl ms, then field, value …
-- Answers {1, epoch} if started, {0, epoch} if not.
local unit, attempt, now, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local f = redis.call('HMGET', JOB, 'status', 'epoch', 'attempt')
local epoch = 1
if f[1] then
  if attempt <= (tonumber(f[3]) or 0) then return {0, tonumber(f[2])} end
  epoch = tonumber(f[2]) + 1
  redis.call('DEL', JOB, WORK)
end
local fields = {}
for i = 5, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', JOB, 'status', 'queued', 'epoch', epoch, 'attempt', attempt, 'created_at', now, unpack(fields))
local units = {}
add_unit(units, unit, epoch, now)
emit_status(now)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ttl) end
return {1, epoch}
