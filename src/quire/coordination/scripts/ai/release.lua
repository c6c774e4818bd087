-- Removes leases of a model whose holder is dead. Reserved requests and tokens stay spent: the calls may have been made.
-- A holder that was only paused settles its lease later, which then no longer counts.
-- KEYS  1 clock, 2 the provider's breaker, 3 the model's, 4 its leases
-- ARGV  1 now ms ('' = the server's own clock), then the leases
-- Answers how many were removed.
local now, offset, clock_due = read_clock(ARGV[1], redis.call('GET', KEYS[1]))
write_clock(KEYS[1], now, offset, clock_due)
local lost, removed = {}, 0
for i = 2, #ARGV do
  if redis.call('ZREM', KEYS[4], ARGV[i]) == 1 then lost[ARGV[i]], removed = true, removed + 1 end
end
if removed == 0 then return 0 end

-- Another call may be the probe now.
local function free_probe(breaker)
  if not lost[breaker[PROBE]] then return false end
  breaker[PROBE], breaker[PROBE_UNTIL] = '', 0
  return true
end
local wide, b = read_breaker(redis.call('GET', KEYS[2])), read_breaker(redis.call('GET', KEYS[3]))
if free_probe(wide) then write_breaker(KEYS[2], wide, now) end
free_probe(b)
b[OUT], b[OUT_UNTIL] = math.max(1, b[OUT]), now  -- counted anew
count_out(KEYS[4], b, now)
write_breaker(KEYS[3], b, now)
return removed
