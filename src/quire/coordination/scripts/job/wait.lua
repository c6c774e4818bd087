-- Releases a unit that found no free candidate: any worker may claim it at once; the housekeeper ignores it until its time.
-- The start does not count.
-- ARGV  unit, epoch, token, until ms, 1 if an attempt failed, 1 if something was stored about its calls
-- Answers 1 if given back, 0 if the claim was no longer valid.
local unit, epoch, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local entry = wanted(unit, epoch)
if not entry or entry.tk ~= token then return 0 end
entry.o, entry.tk, entry.nb, entry.i = '', nil, 0, tonumber(ARGV[4])
entry.s = math.max(0, entry.s - 1)
if ARGV[5] == '1' then entry.f = entry.f + 1 end
if ARGV[5] == '1' or ARGV[6] == '1' then entry.sp = 1 end
redis.call('HSET', WORK, unit, cjson.encode(entry))
return 1
