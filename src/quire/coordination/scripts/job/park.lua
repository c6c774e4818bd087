-- Releases a unit; no worker may claim it before its time.
-- ARGV  unit, epoch, token, not before ms, what counts: 'failed' (an attempt), 'started' (only its start), 'waiting'
--       (nothing: it waits for something else) or 'outage' (nothing but how often it has waited for a plane)
-- Answers 1 if parked, 0 if the claim was no longer valid.
local unit, epoch, token, counts = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[5]
local entry = wanted(unit, epoch)
if not entry or entry.tk ~= token then return 0 end
entry.o, entry.tk, entry.nb, entry.sp = '', nil, tonumber(ARGV[4]), 1
if counts == 'failed' then entry.f = entry.f + 1 end
if counts == 'waiting' or counts == 'outage' then entry.s = math.max(0, entry.s - 1) end
if counts == 'outage' then entry.w = (entry.w or 0) + 1 end
redis.call('HSET', WORK, unit, cjson.encode(entry))
return 1
