-- One page, one decision: the first of the candidates that is free gets the call, or the answer is when to come again.
-- KEYS  clock, lease:{ai}:<lease> (string: what was granted, for a call that is repeated), the providers' breakers,
--       then for each candidate its breaker, rpm and tpm, and at the end each candidate's leases
-- ARGV  1 now ms ('' = the server's own clock), 2 lease, 3 lease ttl ms, 4 cap to start with, 5 take ('0' only looks),
--       6 providers, then for each candidate: place of its provider, rpm (0 = none), tpm (0 = none), most in flight,
--       tokens to reserve
-- Answers {1, place (from 1), now ms, 1 if it is a probe} or {0, wait ms, letters}: for each candidate why not,
--       a provider's breaker open, o breaker open, h its probe is out, f in flight, r requests, t tokens, p pause asked for
local ASK_AGAIN_MS, AHEAD_MS, LEASE_KEPT_MS = 250, 30000, 30000
local lease, lease_ttl, start, take = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] ~= '0'
local wides = tonumber(ARGV[6])
local count = (#KEYS - 2 - wides) / 4
local states = redis.call('MGET', unpack(KEYS, 1, 2 + wides + 3 * count))
local now, offset = read_clock(ARGV[1], states[1])
if states[2] then
  local place, at, probe = string.match(states[2], '^(%S+) (%S+) (%S+)$')
  return {1, tonumber(place), tonumber(at), tonumber(probe)}
end

local letters, soonest = {}, nil
local function no(letter, wait)
  letters[#letters + 1] = letter
  if not soonest or wait < soonest then soonest = wait end
end

-- A breaker that is not closed: the letter and the wait, or nil where it may be probed.
local function closed_to(b, letter)
  if b[UNTIL] > now then return letter, b[UNTIL] - now end
  if b[PROBE_UNTIL] > now then return 'h', ASK_AGAIN_MS end
end

local providers, pushed, push_key = {}, nil, nil
for i = 1, count do
  local k, a, LEASES = 2 + wides + 3 * (i - 1), 6 + 5 * (i - 1), KEYS[2 + wides + 3 * count + i]
  local place = tonumber(ARGV[a + 1])
  local wide = providers[place]
  if not wide then
    wide = read_breaker(states[2 + place])
    providers[place] = wide
  end
  local b = read_breaker(states[k + 1])
  local letter, wait
  if wide[N] > 0 then letter, wait = closed_to(wide, 'a') end
  if not letter and b[N] > 0 then letter, wait = closed_to(b, 'o') end
  if not letter and b[PAUSE] > now then letter, wait = 'p', b[PAUSE] - now end
  if not letter then
    if b[CAP] == 0 then b[CAP] = start end
    if count_out(LEASES, b, now) >= math.min(math.floor(b[CAP]), tonumber(ARGV[a + 4])) then
      letter, wait = 'f', ASK_AGAIN_MS
    end
  end
  if letter then
    no(letter, wait)
  else
    local rpm, tpm = stricter(tonumber(ARGV[a + 2]), b[TOLD_RPM]), stricter(tonumber(ARGV[a + 3]), b[TOLD_TPM])
    local need = math.min(tonumber(ARGV[a + 5]), 0.9 * tpm)
    local r_level, r_cap, r_pace, t_level, t_cap, t_pace
    local each = 0
    wait = 0
    if rpm > 0 then
      r_level, r_cap, r_pace = read_bucket(states[k + 2], rpm, 1, 1, now)
      each = 1000 / r_pace
      if r_level + 1 > r_cap + 0.000001 then wait, letter = (r_level + 1 - r_cap) * each, 'r' end
    end
    if tpm > 0 then
      t_level, t_cap, t_pace = read_bucket(states[k + 3], tpm, need, 0, now)
      each = math.max(each, 1000 * need / t_pace)
      local longer = 1000 * (t_level + need - t_cap) / t_pace
      if longer > wait and longer > 0.001 then wait, letter = longer, 't' end
    end
    if letter then
      -- Whoever comes later is sent further back, so that not all come again for the same slot.
      local turn = math.max(now + wait, math.min(b[NEXT], now + AHEAD_MS))
      if not soonest or turn - now < soonest then
        b[NEXT] = turn + each
        pushed, push_key = b, KEYS[k + 1]
      end
      no(letter, turn - now)
    elseif not take then
      return {1, i, now, 0}
    else
      local probe = (b[N] > 0 or wide[N] > 0) and 1 or 0
      local ends = now + lease_ttl
      if wide[N] > 0 then
        wide[PROBE], wide[PROBE_UNTIL] = lease, ends
        write_breaker(KEYS[2 + place], wide, now)
      end
      if b[N] > 0 then b[PROBE], b[PROBE_UNTIL] = lease, ends end
      if b[OUT] == 0 then b[OUT_UNTIL] = ends end
      b[OUT] = b[OUT] + 1
      write_breaker(KEYS[k + 1], b, now)
      if rpm > 0 then write_bucket(KEYS[k + 2], r_level + 1, now, r_cap) end
      if tpm > 0 then write_bucket(KEYS[k + 3], t_level + need, now, t_cap) end
      redis.call('ZADD', LEASES, string.format('%.0f', ends), lease)
      redis.call('PEXPIRE', LEASES, lease_ttl)
      redis.call('SET', KEYS[2], string.format('%d %.0f %d', i, now, probe), 'PX', LEASE_KEPT_MS)
      write_clock(KEYS[1], now, offset)
      return {1, i, now, probe}
    end
  end
end
if pushed then write_breaker(push_key, pushed, now) end
write_clock(KEYS[1], now, offset)
return {0, math.ceil(soonest or ASK_AGAIN_MS), table.concat(letters)}
