-- A worker claims a unit.
-- ARGV  unit, epoch, owner, token (one for each call, so that a repeated call gets the same answer),
--       owner known to be dead ('' if none), now ms
-- Answers {'gone'} | {'held', owner} | {'early', not before ms}
--       | {'run', starts, failures, waits for a plane, field, value, …}
local unit, epoch, owner, token, dead, now = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local entry = wanted(unit, epoch)
-- If the record has expired a moment before its work, writing to it would create half a record.
if not entry or redis.call('EXISTS', JOB) == 0 then return {'gone'} end
if entry.o ~= '' and entry.o ~= dead and entry.tk ~= token then return {'held', entry.o} end
if entry.nb > now then return {'early', entry.nb} end
if entry.tk ~= token then
  entry.o, entry.tk, entry.s, entry.i = owner, token, entry.s + 1, now
  redis.call('HSET', WORK, unit, cjson.encode(entry))
end
local f = redis.call('HMGET', JOB, 'status', 'started_at')
if f[1] == 'queued' then
  redis.call('HSET', JOB, 'status', 'processing')
  if not f[2] then redis.call('HSET', JOB, 'started_at', now) end
  set_deadline()
  emit_status(now)
end
if unit == 'split' or unit == 'merge' or unit == 'download' then
  redis.call('HSET', JOB, unit .. '.status', 'processing', unit .. '.attempts', entry.s)
  redis.call('HSETNX', JOB, unit .. '.started_at', now)
end
if unit == 'classify' or unit == 'embed' then
  redis.call('HSET', JOB, 'attempts', entry.s)
end
local answer = {'run', entry.s, entry.f, entry.w or 0}
for _, v in ipairs(redis.call('HGETALL', JOB)) do answer[#answer + 1] = v end
return answer
