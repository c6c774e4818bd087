-- Releases a unit; no worker may claim it before its time.
-- ARGV  unit, epoch, token, not before ms, 1 if the attempt failed, 0 if it was only postponed, 2 if
--       it waits for a plane and not even its start counts
-- Answers 1 if parked, 0 if the claim was no longer valid.
local unit, epoch, token = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local entry = wanted(unit, epoch)
if not entry or entry.tk ~= token then return 0 end
entry.o, entry.tk, entry.nb = '', nil, tonumber(ARGV[4])
if ARGV[5] == '1' then entry.f = entry.f + 1 end
if ARGV[5] == '2' then entry.s = entry.s - 1 end
redis.call('HSET', WORK, unit, cjson.encode(entry))
return 1
