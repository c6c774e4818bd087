-- Shared by the scripts that admit and settle AI calls (put in front of them when loaded). Their keys share one hash slot.
--   clock:{ai}                        string  "seen offset" in ms, see `read_clock`
--   cb:{ai}:<provider>                string  breaker of a whole provider (its key is refused)
--   cb:{ai}:<provider>:<model>        string  breaker, adaptive cap and reported limits of a model
--   inflight:{ai}:<provider>:<model>  zset    lease (`<random>/<holder>`, or only `<random>`) -> when it expires (ms)
--   models:{ai}                       zset    <provider>:<model> -> until when its leases are kept (ms)
--   rl:{ai}:<provider>:<model>:rpm    string  token bucket of requests      (likewise :tpm of tokens)
-- The states are packed numbers: fifty of them are read in one command, at a fraction of the cost of hashes.
-- A breaker, by place; the first twelve are what the check of a candidate needs:
local N, UNTIL, PROBE_UNTIL, PAUSE = 1, 2, 3, 4       -- incidents in a row (0 = closed), open until, probe out until
local CAP, OUT, OUT_UNTIL = 5, 6, 7                   -- adaptive cap, leases in the zset, when the first of them expires
local SEEN_RPM, SEEN_TPM, NEXT = 8, 9, 10             -- limits reported by the provider, when the next waiting page may be tried
local SHORT, SHORT_FOR = 11, 12                       -- until when the buckets are short for so many tokens or more
local OPENED, CALM, CUT, OK, BAD = 13, 14, 15, 16, 17 -- last opened, slow growth from here, last halved, calls by their end
local PROBE, CODE = 18, 19                            -- the probe's lease, the last failure
local PEEK, BREAKER, BUCKET = 'dddddddddddd', 'dddddddddddddddddss', 'ddd'
local NO_BREAKER = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', ''}

-- Capacity and pace of a bucket never allow more than its limit in any minute: capacity + pace × 60 s < limit.
-- The window is a second longer than the provider's, because calls take different times to arrive.
local WINDOW_S, IDLE_MS = 61, 61000
local BUCKET_KEPT_MS, BREAKER_KEPT_MS, CLOCK_KEPT_MS = 180000, 3600000, 86400000
local CLOCK_WRITTEN_MS, ANSWERED_WRITTEN_MS = 1000, 1000

-- Time never goes back: after a jump back it continues from the latest time written, at its own pace. The time is not
-- written with every call, so it may repeat CLOCK_WRITTEN_MS once.
local function read_clock(given, raw)
  local plain, seen, offset = tonumber(given), 0, 0
  if not plain then
    local t = redis.call('TIME')
    plain = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  if raw then
    local a, b = string.match(raw, '^(%S+) (%S+)$')
    seen, offset = tonumber(a), tonumber(b)
  end
  local is_back = plain + offset < seen
  if is_back then offset = seen - plain end
  return plain + offset, offset, is_back or plain + offset - seen >= CLOCK_WRITTEN_MS
end

-- `is_due` is the third value of `read_clock`.
local function write_clock(key, now, offset, is_due)
  if is_due then redis.call('SET', key, string.format('%.0f %.0f', now, offset), 'PX', CLOCK_KEPT_MS) end
end

local function read_breaker(raw)
  if not raw then return {unpack(NO_BREAKER)} end
  return {struct.unpack(BREAKER, raw)}
end

local function write_breaker(key, b, now)
  local kept = math.max(b[UNTIL] - now, 0) + BREAKER_KEPT_MS
  redis.call('SET', key, struct.pack(BREAKER, unpack(b, 1, 19)), 'PX', string.format('%.0f', kept))
end

-- What is in a bucket's meter, its capacity and its pace per second, after the time that has passed. `whole` is 1 where
-- only whole things are counted. A capacity that grows for a larger need starts used, so that it adds no budget.
local function read_bucket(raw, limit, need, whole, now)
  local capacity, level = math.max(math.ceil(limit / 60), need), 0
  if raw then
    local l, at, c = struct.unpack(BUCKET, raw)
    if capacity > c then l = l + capacity - c else capacity = c end
    capacity = math.min(capacity, math.max(need, 0.9 * limit))
    level = math.max(0, l - (limit - capacity + whole) / WINDOW_S * (now - at) / 1000)
    if level == 0 and now - at > IDLE_MS then capacity = math.max(math.ceil(limit / 60), need) end
  end
  return level, capacity, (limit - capacity + whole) / WINDOW_S
end

local function write_bucket(key, level, now, capacity)
  redis.call('SET', key, struct.pack(BUCKET, level, now, capacity), 'PX', BUCKET_KEPT_MS)
end

-- The stricter of two limits, where 0 is none.
local function stricter(a, b)
  if a == 0 then return b end
  if b == 0 then return a end
  return math.min(a, b)
end

-- Removes expired leases; returns how many calls are in flight.
local function count_out(key, b, now)
  if b[OUT] > 0 and b[OUT_UNTIL] <= now then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    b[OUT], b[OUT_UNTIL] = redis.call('ZCARD', key), tonumber(first[2]) or 0
  end
  return b[OUT]
end
