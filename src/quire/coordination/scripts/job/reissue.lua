-- Releases units whose worker is dead or whose queue entry is lost; the caller queues the units of the answer.
-- ARGV  now ms, then for each unit: unit, owner ('' = not claimed), issued or claimed ms as it was seen (0 = any)
-- Answers {unit …}: those that have not changed since.
local now, units = tonumber(ARGV[1]), {}
for i = 2, #ARGV, 3 do
  local raw = redis.call('HGET', WORK, ARGV[i])
  local entry = raw and cjson.decode(raw)
  local seen = tonumber(ARGV[i + 2])
  if entry and entry.o == ARGV[i + 1] and (seen == 0 or seen == math.max(entry.i, entry.nb)) then
    entry.o, entry.tk, entry.i = '', nil, now
    redis.call('HSET', WORK, ARGV[i], cjson.encode(entry))
    units[#units + 1] = ARGV[i]
  end
end
return units
