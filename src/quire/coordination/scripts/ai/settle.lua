-- Ends a call: removes its lease, replaces the estimate by the real usage, updates breaker and adaptive cap.
-- KEYS  1 clock, 2 the provider's breaker, 3 the model's, 4 its leases, 5 rpm, 6 tpm, 7 errors:{ai} (list, newest first),
--       8 answered:{ai}:<provider>:<model> (string with TTL: when a call succeeded, to a second)
-- ARGV  1 now ms ('' = the server's own clock), 2 lease, 3 admitted at ms,
--       4 outcome: ok | neutral (no evidence about the model) | fail | limit (429) | auth | unsent
--       5 error code for display, 6 tokens reserved, 7 tokens used, 8 rpm, 9 tpm, 10 most in flight, 11 cap to start with,
--       12 retry after ms, 13 base backoff ms, 14 longest backoff ms,
--       15 rpm and 16 tpm that the provider reported (0 = nothing), 17 pause ms that it asked for, 18 name of the model,
--       19 how long a success is known, in ms
-- Answers {1 if the lease still counted, open | closed, calls are allowed again in ms, calls that could go now,
--       what this call did to the model's breaker ('' | opened | closed), the same for the provider's}
-- A failed call opens a closed breaker; there is no threshold. A call admitted before the breaker opened belongs to that
-- incident, however late it fails; one admitted after was a probe. Names in capitals are fields of a breaker (_prelude.lua);
-- `b` is the breaker of the model, `wide` that of the provider.
-- Times may repeat (`read_clock`), so a call counts as admitted after it by half the shortest backoff: before that there is none
-- but an early probe.
local ERRORS_KEPT = 50
local lease, admitted, outcome, code = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local most, retry_after = tonumber(ARGV[10]), tonumber(ARGV[12])
local LEASES = KEYS[4]
local states = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[8])
local now, offset, clock_due = read_clock(ARGV[1], states[1])
write_clock(KEYS[1], now, offset, clock_due)
local wide, b = read_breaker(states[2]), read_breaker(states[3])
if b[CAP] == 0 then b[CAP] = tonumber(ARGV[11]) end
local rpm, tpm = stricter(tonumber(ARGV[8]), b[SEEN_RPM]), stricter(tonumber(ARGV[9]), b[SEEN_TPM])

-- Refunds what was reserved and not used, but never what has refilled since: that would count twice.
local function correct(key, raw, limit, whole, by)
  if limit == 0 or by == 0 or not raw then return end
  local level, capacity, pace = read_bucket(raw, limit, 0, whole, now)
  if by < 0 then by = math.min(0, by + pace * (now - admitted) / 1000) end
  write_bucket(key, math.max(0, level + by), now, capacity)
  b[SHORT] = 0
end

local counted = redis.call('ZREM', LEASES, lease)
if counted == 1 then
  b[OUT] = b[OUT] - 1
  correct(KEYS[6], states[5], tpm, 0, tonumber(ARGV[7]) - math.min(tonumber(ARGV[6]), 0.9 * tpm))
  if outcome == 'unsent' then correct(KEYS[5], states[4], rpm, 1, -1) end
end
local out = count_out(LEASES, b, now)

local wide_changed, done, wide_done = false, '', ''
local margin = tonumber(ARGV[13]) / 2
local function is_after_opening(breaker)
  return breaker[PROBE] == lease or admitted > breaker[OPENED] + margin
end
local function note(breaker, what)
  if breaker == wide then wide_done = what else done = what end
end
local function open(breaker)
  note(breaker, 'opened')
  local backoff = math.min(tonumber(ARGV[13]) * 2 ^ breaker[N], tonumber(ARGV[14]))
  breaker[N] = breaker[N] + 1
  breaker[UNTIL], breaker[OPENED] = now + math.max(backoff, retry_after, 1), now
  breaker[PAUSE] = math.max(breaker[PAUSE], now + retry_after)
  breaker[PROBE], breaker[PROBE_UNTIL], breaker[CODE] = '', 0, code
end
local function close(breaker)
  note(breaker, 'closed')
  breaker[N], breaker[UNTIL], breaker[PROBE], breaker[PROBE_UNTIL] = 0, 0, '', 0
  -- After an early probe, too, calls that are admitted from now on count.
  breaker[OPENED] = math.min(breaker[OPENED], now - margin - 1)
end
local function free_probe(breaker)
  if breaker[PROBE] == lease then breaker[PROBE], breaker[PROBE_UNTIL] = '', 0 end
end
local function remember_error()
  b[BAD], b[CODE] = b[BAD] + 1, code
  redis.call('LPUSH', KEYS[7], cjson.encode({target = ARGV[18], code = code, at = now - offset}))
  redis.call('LTRIM', KEYS[7], 0, ERRORS_KEPT - 1)
  redis.call('PEXPIRE', KEYS[7], BREAKER_KEPT_MS)
end

if outcome == 'ok' then
  if b[N] > 0 and is_after_opening(b) then close(b) end
  if wide[N] > 0 and is_after_opening(wide) then
    close(wide)
    wide_changed = true
  end
  -- Grows only where it is used: by one for each success at first, after the first 429 by one for each round of calls.
  if counted == 1 and 2 * (out + 1) >= math.min(b[CAP], most) then
    local step = 1
    if b[CALM] > 0 and b[CAP] >= b[CALM] then step = 1 / b[CAP] end
    b[CAP] = math.min(b[CAP] + step, most)
  end
  b[OK] = b[OK] + 1
  local answered = tonumber(states[6] or nil) or 0
  if now - answered >= ANSWERED_WRITTEN_MS then
    redis.call('SET', KEYS[8], string.format('%.0f', now), 'PX', ARGV[19])
  end
elseif outcome == 'fail' or outcome == 'limit' then
  if outcome == 'limit' and admitted > b[CUT] then
    b[CAP] = math.max(1, math.min(b[CAP], most) / 2)
    b[CALM], b[CUT] = b[CAP], now
  end
  if is_after_opening(b) then
    open(b)
  elseif b[N] > 0 then
    b[UNTIL], b[PAUSE] = math.max(b[UNTIL], now + retry_after), math.max(b[PAUSE], now + retry_after)
  end
  if wide[PROBE] == lease then
    free_probe(wide)
    wide_changed = true
  end
  remember_error()
elseif outcome == 'auth' then
  if is_after_opening(wide) then
    open(wide)
    wide_changed = true
  end
  free_probe(b)
  remember_error()
else
  free_probe(b)
  if wide[PROBE] == lease then
    free_probe(wide)
    wide_changed = true
  end
end

local seen_rpm, seen_tpm, pause = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
if seen_rpm > 0 then b[SEEN_RPM] = seen_rpm end
if seen_tpm > 0 then b[SEEN_TPM] = seen_tpm end
if pause > 0 then b[PAUSE] = math.max(b[PAUSE], now + pause) end
write_breaker(KEYS[3], b, now)
if wide_changed then write_breaker(KEYS[2], wide, now) end

if b[N] > 0 then return {counted, 'open', math.ceil(math.max(0, b[UNTIL] - now)), 0, done, wide_done} end
local room = math.max(0, math.floor(math.min(b[CAP], most)) - out)
if b[PAUSE] > now then room = 0 end
local function fitting(key, limit, need, whole)
  if limit == 0 or room == 0 then return end
  local level, capacity = read_bucket(redis.call('GET', key) or nil, limit, need, whole, now)
  room = math.max(0, math.min(room, math.floor((capacity - level) / need + 0.000001)))
end
fitting(KEYS[5], rpm, 1, 1)
fitting(KEYS[6], tpm, math.max(1, math.min(tonumber(ARGV[6]), 0.9 * tpm)), 0)
return {counted, 'closed', 0, room, done, wide_done}
