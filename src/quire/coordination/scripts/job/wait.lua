-- Gives a unit back that found no free candidate: anybody may take it at once, the sweeper leaves it alone until its time.
-- It was not really started, so that does not count.
-- ARGV  unit, epoch, token, until ms
-- Answers 1 if given back, 0 if the unit was no longer this holder's.
local unit, epoch, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local entry = wanted(unit, epoch)
if not entry or entry.tk ~= token then return 0 end
entry.o, entry.tk, entry.nb, entry.i = '', nil, 0, tonumber(ARGV[4])
entry.s = math.max(0, entry.s - 1)
redis.call('HSET', WORK, unit, cjson.encode(entry))
return 1
