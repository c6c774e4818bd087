-- A worker claims a unit.
-- ARGV  unit, epoch, owner, token (one for each call, so that a repeated call gets the same answer),
--       owner known to be dead ('' if none), now ms
-- Answers {'gone'} | {'held', owner} | {'early', not before ms}
--       | {'run', starts, failures, waits for a plane, 1 if it was tried before, record of its page or '', field, value, …}
local unit, epoch, owner, token, dead, now = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local entry = wanted(unit, epoch)
if not entry then return {'gone'} end
local record = redis.call('HGETALL', JOB)
-- If the record has expired a moment before its work, writing to it would create half a record.
if #record == 0 then return {'gone'} end
if entry.o ~= '' and entry.o ~= dead and entry.tk ~= token then return {'held', entry.o} end
if entry.nb > now then return {'early', entry.nb} end
if entry.tk ~= token then
  entry.o, entry.tk, entry.s, entry.i = owner, token, entry.s + 1, now
  redis.call('HSET', WORK, unit, cjson.encode(entry))
end
local f, changed = {}, false
for i = 1, #record, 2 do f[record[i]] = record[i + 1] end
if f.status == 'queued' then
  changed = true
  redis.call('HSET', JOB, 'status', 'processing', 'started_at', f.started_at or now)
  set_deadline()
  emit_status(now)
end
if unit == 'split' or unit == 'merge' or unit == 'download' then
  changed = true
  redis.call('HSET', JOB, unit .. '.status', 'processing', unit .. '.attempts', entry.s,
    unit .. '.started_at', f[unit .. '.started_at'] or now)
end
if unit == 'classify' or unit == 'embed' then
  changed = true
  redis.call('HSET', JOB, 'attempts', entry.s)
end
if changed then record = redis.call('HGETALL', JOB) end
local number = string.match(unit, '^p(%d+)$')
local page = number and redis.call('HGET', PAGES, number) or ''
local tried = entry.sp or entry.s > 1
local answer = {'run', entry.s, entry.f, entry.w or 0, tried and 1 or 0, page}
for _, v in ipairs(record) do answer[#answer + 1] = v end
return answer
