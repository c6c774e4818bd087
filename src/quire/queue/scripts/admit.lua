-- One page, one decision: the first of the candidates that is free gets the call, or the answer is when to come again.
-- KEYS  1 clock:{ai}                     string  "seen offset": the latest time known here, see `time` below
--       2 lease:{ai}:<lease>             string  the place that was granted, so that a repeated call gets the same answer
--       then for each candidate, in order:
--       +1 cb:{ai}:<provider>            hash    breaker of the whole provider (wrong key)
--       +2 cb:{ai}:<provider>:<model>    hash    breaker and adaptive cap of the model
--       +3 inflight:{ai}:<…>             zset    lease -> when it expires (ms)
--       +4 rl:{ai}:<…>:rpm  +5 rl:{ai}:<…>:tpm  strings "level at capacity" of the token buckets
-- ARGV  1 now ms ('' = the server's own clock), 2 lease, 3 lease ttl ms, 4 cap to start with, 5 take ('0' only looks),
--       then for each candidate: rpm (0 = none), tpm (0 = none), most in flight, tokens to reserve
-- Answers {1, place (from 1), now ms, 1 if it is a probe} or {0, wait ms, letters}: for each candidate why not,
--       a provider's breaker open, o breaker open, h its probe is out, f in flight, r requests, t tokens, p asked to pause
-- A breaker's fields: n incidents in a row (0 = closed), until, opened, probe (its lease), cap, calm, late, srpm, stpm,
--       pause, next; see settle.lua for who writes them.
local WINDOW_S, IDLE_MS, KEPT_MS = 61, 61000, 180000
local BREAKER_KEPT_MS, CLOCK_KEPT_MS, LEASE_KEPT_MS = 3600000, 86400000, 30000
local ASK_AGAIN_MS, AHEAD_MS = 250, 30000

local lease, lease_ttl, start, take = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] ~= '0'
local count = (#KEYS - 2) / 5
local plain = {KEYS[1], KEYS[2]}
for i = 0, count - 1 do
  plain[#plain + 1] = KEYS[6 + 5 * i]
  plain[#plain + 1] = KEYS[7 + 5 * i]
end
local strings = redis.call('MGET', unpack(plain))

-- Time here never goes back: after a jump back it goes on from the latest moment seen, at its own pace.
local raw_now, seen, offset = tonumber(ARGV[1]), 0, 0
if not raw_now then
  local t = redis.call('TIME')
  raw_now = t[1] * 1000 + math.floor(t[2] / 1000)
end
if strings[1] then
  local a, b = string.match(strings[1], '^(%S+) (%S+)$')
  seen, offset = tonumber(a), tonumber(b)
end
local now = raw_now + offset
if now < seen then
  offset = seen - raw_now
  now = seen
end

if strings[2] then
  local place, at, probe = string.match(strings[2], '^(%S+) (%S+) (%S+)$')
  return {1, tonumber(place), tonumber(at), tonumber(probe)}
end

-- Tokens in the bucket's meter, its capacity and its pace, after the time that has passed.
-- Capacity and pace together never give more than the limit in any minute; a larger capacity starts out used.
local function bucket(raw, limit, need, whole)
  local capacity, level = math.max(math.ceil(limit / 60), need), 0
  if raw then
    local l, a, c = string.match(raw, '^(%S+) (%S+) (%S+)$')
    l, a, c = tonumber(l), tonumber(a), tonumber(c)
    if now - a <= IDLE_MS or l > 0 and now - a <= 10 * IDLE_MS then
      if capacity > c then l = l + capacity - c else capacity = c end
      local pace = (limit - capacity + whole) / WINDOW_S
      level = math.max(0, l - pace * (now - a) / 1000)
      if level == 0 and now - a > IDLE_MS then capacity = math.max(math.ceil(limit / 60), need) end
    end
  end
  return level, capacity, (limit - capacity + whole) / WINDOW_S
end

local function least(a, b)
  if a == 0 then return b end
  if b == 0 then return a end
  return math.min(a, b)
end

local function write_clock()
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', now, offset), 'PX', CLOCK_KEPT_MS)
end

local providers, letters, soonest, slow_start = {}, {}, nil, start
local function no(letter, wait)
  letters[#letters + 1] = letter
  if not soonest or wait < soonest then soonest = wait end
end

for i = 0, count - 1 do
  local k, a = 2 + 5 * i, 5 + 4 * i
  local wide = providers[KEYS[k + 1]]
  if not wide then
    wide = redis.call('HMGET', KEYS[k + 1], 'n', 'until', 'probe', 'probe_until')
    providers[KEYS[k + 1]] = wide
  end
  local f = redis.call('HMGET', KEYS[k + 2], 'n', 'until', 'probe', 'cap', 'srpm', 'stpm', 'pause', 'next', 'probe_until')
  local broken, wide_broken = (tonumber(f[1]) or 0) > 0, (tonumber(wide[1]) or 0) > 0
  local pause = tonumber(f[7]) or 0
  if wide_broken and tonumber(wide[2]) > now then
    no('a', tonumber(wide[2]) - now)
  elseif wide_broken and (tonumber(wide[4]) or 0) > now then
    no('h', ASK_AGAIN_MS)
  elseif broken and tonumber(f[2]) > now then
    no('o', tonumber(f[2]) - now)
  elseif broken and (tonumber(f[9]) or 0) > now then
    no('h', ASK_AGAIN_MS)
  elseif pause > now then
    no('p', pause - now)
  else
    local most = math.min(math.floor(tonumber(f[4]) or start), tonumber(ARGV[a + 3]))
    if redis.call('ZCOUNT', KEYS[k + 3], '(' .. string.format('%.0f', now), '+inf') >= most then
      no('f', ASK_AGAIN_MS)
    else
      local rpm = least(tonumber(ARGV[a + 1]), tonumber(f[5]) or 0)
      local tpm = least(tonumber(ARGV[a + 2]), tonumber(f[6]) or 0)
      local need = math.min(tonumber(ARGV[a + 4]), 0.9 * tpm)
      local r_level, r_cap, r_pace, t_level, t_cap, t_pace = 0, 0, 0, 0, 0, 0
      local wait, letter, each = 0, '', 0
      if rpm > 0 then
        r_level, r_cap, r_pace = bucket(strings[3 + 2 * i], rpm, 1, 1)
        each = 1000 / r_pace
        local short = r_level + 1 - r_cap
        if short > 0.000001 then wait, letter = 1000 * short / r_pace, 'r' end
      end
      if tpm > 0 then
        t_level, t_cap, t_pace = bucket(strings[4 + 2 * i], tpm, need, 0)
        each = math.max(each, 1000 * need / t_pace)
        local short = t_level + need - t_cap
        if short > 0.000001 and 1000 * short / t_pace > wait then wait, letter = 1000 * short / t_pace, 't' end
      end
      if wait > 0 then
        -- Whoever comes later is sent further back, so that not all come again for the same slot.
        local turn = math.max(now + wait, math.min(tonumber(f[8]) or 0, now + AHEAD_MS))
        no(letter, turn - now)
        if take and soonest == turn - now then
          redis.call('HSET', KEYS[k + 2], 'next', string.format('%.0f', turn + each))
          redis.call('PEXPIRE', KEYS[k + 2], BREAKER_KEPT_MS)
        end
      elseif not take then
        return {1, i + 1, now, 0}
      else
        local probe = (broken or wide_broken) and 1 or 0
        local ends = string.format('%.0f', now + lease_ttl)
        if broken then redis.call('HSET', KEYS[k + 2], 'probe', lease, 'probe_until', ends) end
        if wide_broken then redis.call('HSET', KEYS[k + 1], 'probe', lease, 'probe_until', ends) end
        if rpm > 0 then
          redis.call('SET', KEYS[k + 4], string.format('%.6f %.0f %.6f', r_level + 1, now, r_cap), 'PX', KEPT_MS)
        end
        if tpm > 0 then
          redis.call('SET', KEYS[k + 5], string.format('%.6f %.0f %.6f', t_level + need, now, t_cap), 'PX', KEPT_MS)
        end
        redis.call('ZREMRANGEBYSCORE', KEYS[k + 3], '-inf', string.format('%.0f', now))
        redis.call('ZADD', KEYS[k + 3], ends, lease)
        redis.call('PEXPIRE', KEYS[k + 3], lease_ttl)
        redis.call('SET', KEYS[2], string.format('%d %.0f %d', i + 1, now, probe), 'PX', LEASE_KEPT_MS)
        write_clock()
        return {1, i + 1, now, probe}
      end
    end
  end
end
write_clock()
return {0, math.ceil(soonest or ASK_AGAIN_MS), table.concat(letters)}
