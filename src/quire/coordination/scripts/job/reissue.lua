-- Releases units whose worker is dead or whose queue entry is lost; the caller queues the units of the answer.
-- ARGV  now ms, then for each unit: unit, owner ('' = not claimed)
-- Answers {unit …}: those that still have this owner.
local now, units = tonumber(ARGV[1]), {}
for i = 2, #ARGV, 2 do
  local raw = redis.call('HGET', WORK, ARGV[i])
  local entry = raw and cjson.decode(raw)
  if entry and entry.o == ARGV[i + 1] then
    entry.o, entry.tk, entry.i = '', nil, now
    redis.call('HSET', WORK, ARGV[i], cjson.encode(entry))
    units[#units + 1] = ARGV[i]
  end
end
return units
