-- One page, one decision: takes a lease on the first free candidate, or answers when to ask again.
-- KEYS  clock, lease:{ai}:<lease> (string: what was granted, for a repeated request), the providers' breakers,
--       each candidate's breaker, then for each candidate its rpm, tpm and leases, and last models:{ai}
-- ARGV  1 now ms ('' = the server's own clock), 2 lease, 3 lease ttl ms, 4 cap to start with, 5 take ('0' takes no lease),
--       6 providers, 7 packed: for each candidate five doubles: place of its provider, rpm (0 = none), tpm (0 = none),
--       most in flight, tokens to reserve, 8 sticky ('1': the first healthy candidate that is short of requests or
--       tokens ends the search; the page waits for it), 9 early ms (0 = no): instead of by its time, a breaker grants a
--       probe when it opened at least so long ago, unless the provider asked for a longer pause
-- Answers {1, place (from 1), now ms, 1 if it is a probe} or {0, wait ms, letters}: for each candidate that was looked at why not,
--       a provider's breaker open, o breaker open, h its probe is in flight, f in flight, r requests, t tokens, p pause asked for
local ASK_AGAIN_MS, AHEAD_MS, LEASE_KEPT_MS = 250, 30000, 30000
local lease, lease_ttl, start, take = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] ~= '0'
local wides, asked, sticky, early = tonumber(ARGV[6]), ARGV[7], ARGV[8] == '1', tonumber(ARGV[9])
local count = (#KEYS - 3 - wides) / 4
local states = redis.call('MGET', unpack(KEYS, 1, 2 + wides + count))
local now, offset, clock_due = read_clock(ARGV[1], states[1])
if states[2] then
  local place, at, probe = string.match(states[2], '^(%S+) (%S+) (%S+)$')
  return {1, tonumber(place), tonumber(at), tonumber(probe)}
end

local function is_open(raw, till)
  if early == 0 then return till > now end
  local b = read_breaker(raw)
  return b[PAUSE] > now or now - b[OPENED] < early
end

local wide_letters, wide_waits = {}, {}
for place = 1, wides do
  if states[2 + place] then
    local n, till, probe_until = struct.unpack(PEEK, states[2 + place])
    if n > 0 and is_open(states[2 + place], till) then
      wide_letters[place], wide_waits[place] = 'a', till - now
    elseif n > 0 and probe_until > now then
      wide_letters[place], wide_waits[place] = 'h', ASK_AGAIN_MS
    end
  end
end

local function grant(i, place, r, t)
  local k, key = 2 + wides + count + 3 * (i - 1), KEYS[2 + wides + i]
  local b, wide, probe, ends = read_breaker(states[2 + wides + i]), read_breaker(states[2 + place]), 0, now + lease_ttl
  if b[CAP] == 0 then b[CAP] = start end
  count_out(KEYS[k + 3], b, now)
  if wide[N] > 0 then
    wide[PROBE], wide[PROBE_UNTIL], probe = lease, ends, 1
    write_breaker(KEYS[2 + place], wide, now)
  end
  if b[N] > 0 then b[PROBE], b[PROBE_UNTIL], probe = lease, ends, 1 end
  -- Not with every lease: the set is kept an hour longer, and one lease of eight extends that.
  local extends = b[OUT] == 0 or string.byte(lease) % 8 == 0
  if b[OUT] == 0 then b[OUT_UNTIL] = ends end
  b[OUT] = b[OUT] + 1
  write_breaker(key, b, now)
  if r then write_bucket(KEYS[k + 1], r[1] + 1, now, r[2]) end
  if t then write_bucket(KEYS[k + 2], t[1] + t[4], now, t[2]) end
  redis.call('ZADD', KEYS[k + 3], string.format('%.0f', ends), lease)
  if extends then
    local kept = lease_ttl + BREAKER_KEPT_MS
    redis.call('PEXPIRE', KEYS[k + 3], kept)
    -- By this index the leases of a dead holder are found (release.lua).
    redis.call('ZADD', KEYS[#KEYS], string.format('%.0f', now + kept), string.match(KEYS[k + 3], '^inflight:{ai}:(.+)$'))
    redis.call('ZREMRANGEBYSCORE', KEYS[#KEYS], '-inf', string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[#KEYS], kept)
  end
  redis.call('SET', KEYS[2], string.format('%d %.0f %d', i, now, probe), 'PX', LEASE_KEPT_MS)
  write_clock(KEYS[1], now, offset, clock_due)
  return {1, i, now, probe}
end

local letters, seen_short = {}, {}
local soonest, waiting, turn_ms, each_ms = nil, nil, 0, 0
for i = 1, count do
  local place, rpm, tpm, most, need = struct.unpack('ddddd', asked, 40 * (i - 1) + 1)
  local letter, wait = wide_letters[place], wide_waits[place]
  local n, till, probe_until, pause, cap, out, out_until, seen_rpm, seen_tpm, nxt, short, short_for =
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  local raw = states[2 + wides + i]
  if raw and not letter then
    n, till, probe_until, pause, cap, out, out_until, seen_rpm, seen_tpm, nxt, short, short_for =
      struct.unpack(PEEK, raw)
    if n > 0 and is_open(raw, till) then letter, wait = 'o', till - now
    elseif n > 0 and probe_until > now then letter, wait = 'h', ASK_AGAIN_MS
    elseif pause > now then letter, wait = 'p', pause - now
    else
      if cap == 0 then cap = start end
      local allowed = math.min(math.floor(cap), most)
      if out >= allowed then
        local leases = KEYS[2 + wides + count + 3 * i]
        if count_out(leases, {[OUT] = out, [OUT_UNTIL] = out_until}, now) >= allowed then
          letter, wait = 'f', ASK_AGAIN_MS
        end
      end
    end
  end
  if not letter then
    local r, t
    rpm, tpm = stricter(rpm, seen_rpm), stricter(tpm, seen_tpm)
    need = math.min(need, 0.9 * tpm)
    local limited, each, longest = '', 0, 0
    if rpm > 0 or tpm > 0 then
      if short > now and need >= short_for then
        limited, longest = 'r', short - now
      else
        local k = 2 + wides + count + 3 * (i - 1)
        local raws = redis.call('MGET', KEYS[k + 1], KEYS[k + 2])
        if rpm > 0 then
          r = {read_bucket(raws[1], rpm, 1, 1, now)}
          each = 1000 / r[3]
          if r[1] + 1 > r[2] + 0.000001 then limited, longest = 'r', (r[1] + 1 - r[2]) * each end
        end
        if tpm > 0 then
          t = {read_bucket(raws[2], tpm, need, 0, now)}
          t[4] = need
          each = math.max(each, 1000 * need / t[3])
          local longer = 1000 * (t[1] + need - t[2]) / t[3]
          if longer > longest and longer > 0.001 then limited, longest = 't', longer end
        end
      end
    end
    if longest == 0 then
      if not take then return {1, i, now, 0} end
      return grant(i, place, r, t)
    end
    -- Later pages get later times, so that not all of them ask again for the same slot.
    local turn = math.max(now + longest, math.min(nxt, now + AHEAD_MS))
    letter, wait = limited, turn - now
    if not soonest or wait < soonest then
      waiting, turn_ms, each_ms = i, turn, math.max(each, rpm > 0 and 60000 / rpm or 0)
    end
    if each > 0 then
      local b = read_breaker(raw)
      b[SHORT], b[SHORT_FOR] = now + longest, need
      write_breaker(KEYS[2 + wides + i], b, now)
      seen_short[i] = b
    end
  else
    if not soonest or wait < soonest then waiting = nil end
  end
  letters[i] = letter
  if not soonest or wait < soonest then soonest = wait end
  if sticky and (letter == 'r' or letter == 't' or letter == 'p') then
    soonest = wait
    break
  end
end
if waiting then
  local b = seen_short[waiting] or read_breaker(states[2 + wides + waiting])
  b[NEXT] = turn_ms + each_ms
  write_breaker(KEYS[2 + wides + waiting], b, now)
end
write_clock(KEYS[1], now, offset, clock_due)
return {0, math.ceil(soonest or ASK_AGAIN_MS), table.concat(letters)}
