-- Gives a unit back: nobody holds it, and nobody may take it before its time.
-- ARGV  unit, epoch, token, not before ms, 1 if it failed (0: it was only put off)
-- Answers 1 if parked, 0 if the unit was no longer this holder's.
local unit, epoch, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local entry = wanted(unit, epoch)
if not entry or entry.tk ~= token then return 0 end
entry.o, entry.tk, entry.nb = '', nil, tonumber(ARGV[4])
if ARGV[5] == '1' then entry.f = entry.f + 1 end
redis.call('HSET', WORK, unit, cjson.encode(entry))
return 1
