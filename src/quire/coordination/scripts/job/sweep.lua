-- Finds the units of a job that were issued or claimed longer ago than the grace period.
-- ARGV  now ms, grace ms
-- Answers {status or '', deadline ms or 0, epoch, queued at ms (0 unless it is queued), priority or '', then for each
--   suspect unit: unit, owner ('' = not claimed), issued or claimed ms}
local now, grace = tonumber(ARGV[1]), tonumber(ARGV[2])
local f = redis.call('HMGET', JOB, 'status', 'deadline_at', 'timed_out', 'epoch', 'queued_at', 'created_at', 'priority')
if not f[1] then return {'', 0, 0, 0, ''} end
local deadline = 0
if f[2] and f[3] ~= '1' then deadline = tonumber(f[2]) end
local queued = f[1] == 'queued' and tonumber(f[5] or f[6]) or 0
local answer = {f[1], deadline, tonumber(f[4]), queued, f[7] or ''}
local all = redis.call('HGETALL', WORK)
for i = 1, #all, 2 do
  local entry = cjson.decode(all[i + 1])
  local since = math.max(entry.i, entry.nb)
  if since + grace < now then
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = entry.o
    answer[#answer + 1] = since
  end
end
return answer
