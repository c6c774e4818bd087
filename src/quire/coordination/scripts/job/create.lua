-- Creates a job unless its id is in use. Its first unit is download or split.
-- ARGV  now ms, ttl ms, first unit, token of this call, then field, value, field, value …
-- Answers {1, unit} if created, {0, status, sha256, fingerprint} if the id is in use.
local now, ttl, first, call = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4]
if redis.call('EXISTS', JOB) == 1 then
  local f = redis.call('HMGET', JOB, 'status', 'sha256', 'fingerprint', 'call')
  -- The same call, repeated after a lost connection: if it were refused, its caller would delete the document.
  if f[4] == call then return {1, first} end
  return {0, f[1] or '', f[2] or '', f[3] or ''}
end
local fields = {}
for i = 5, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', JOB, 'status', 'queued', 'epoch', 1, 'created_at', now, 'queued_at', now, 'call', call, unpack(fields))
redis.call('HSET', JOB, first .. '.status', 'queued', first .. '.created_at', now)
local units = {}
add_unit(units, first, 1, now)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ttl) end
emit_status(now)
redis.call('PEXPIRE', EVENTS, ttl)
return {1, first}
