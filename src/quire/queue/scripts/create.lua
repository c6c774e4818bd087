-- Makes a job unless its id is taken. Its first unit is download or split.
-- ARGV  now ms, ttl ms, first unit, then field, value, field, value …
-- Answers {1, unit} if made, {0, status, sha256, fingerprint} if the id is taken.
local now, ttl, first = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
if redis.call('EXISTS', JOB) == 1 then
  local f = redis.call('HMGET', JOB, 'status', 'sha256', 'fingerprint')
  return {0, f[1] or '', f[2] or '', f[3] or ''}
end
local fields = {}
for i = 4, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('HSET', JOB, 'status', 'queued', 'epoch', 1, 'created_at', now, unpack(fields))
redis.call('HSET', JOB, first .. '.status', 'queued', first .. '.created_at', now)
local units = {}
add_unit(units, first, 1, now)
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ttl) end
emit_status(now)
redis.call('PEXPIRE', EVENTS, ttl)
return {1, first}
