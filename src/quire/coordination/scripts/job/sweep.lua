-- Finds the units of a job that were issued or claimed longer ago than the grace period.
-- ARGV  now ms, grace ms
-- Answers {status or '', deadline ms or 0, epoch, then for each suspect unit: unit, owner ('' = not claimed)}
-- Suspects without an owner are marked as issued now: the caller queues them again.
local now, grace = tonumber(ARGV[1]), tonumber(ARGV[2])
local f = redis.call('HMGET', JOB, 'status', 'deadline_at', 'timed_out', 'epoch')
if not f[1] then return {'', 0, 0} end
local deadline = 0
if f[2] and f[3] ~= '1' then deadline = tonumber(f[2]) end
local answer = {f[1], deadline, tonumber(f[4])}
local all = redis.call('HGETALL', WORK)
for i = 1, #all, 2 do
  local entry = cjson.decode(all[i + 1])
  if math.max(entry.i, entry.nb) + grace < now then
    if entry.o == '' then
      entry.i = now
      redis.call('HSET', WORK, all[i], cjson.encode(entry))
    end
    answer[#answer + 1] = all[i]
    answer[#answer + 1] = entry.o
  end
end
return answer
