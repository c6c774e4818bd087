-- Records the outcome of a backend call, or of a health check, in the breaker and in the model of service times.
-- KEYS  1 breaker, 2 model, 3 stats, 4 calls
-- ARGV  1 now ms, 2 'ok' | 'failed' | 'down' | 'healthy' | 'unhealthy', 3 images (0 for a probe), 4 seconds,
--       5 failures that open the breaker, 6 cooldown ms, 7 first backoff ms, 8 maximum backoff ms,
--       9 factor for older observations, 10 id of the batch that made the call ('' if none), 11 lease of a probe ms
-- Answers {failures in a row, not before ms, '1' if this call opened the breaker, last success ms,
--   weight, Σsize, Σseconds, Σsize², Σsize·seconds}
-- A 'failed' call that opens the breaker takes the lease of the probe: its batch sends the probe image at once.
local now, what, threshold = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[5])
local f = redis.call('HMGET', KEYS[1], 'failures', 'until', 'kind', 'sick')
local failures, until_ms, opened = tonumber(f[1] or 0), tonumber(f[2] or 0), 0
if ARGV[10] ~= '' then redis.call('ZREM', KEYS[4], ARGV[10]) end
if what == 'ok' then
  failures, until_ms = 0, 0
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[3], 'last_ok', now)
  redis.call('HINCRBY', KEYS[3], 'calls_ok', 1)
  local decay, x, y = tonumber(ARGV[9]), tonumber(ARGV[3]), tonumber(ARGV[4])
  if x > 0 then
    local m = redis.call('HMGET', KEYS[2], 'w', 'x', 'y', 'xx', 'xy')
    local function sum(old, add) return string.format('%.9g', (tonumber(old or 0)) * decay + add) end
    redis.call('HSET', KEYS[2], 'w', sum(m[1], 1), 'x', sum(m[2], x), 'y', sum(m[3], y), 'xx', sum(m[4], x * x), 'xy', sum(m[5], x * y))
  end
elseif what == 'unhealthy' then
  if failures >= threshold then redis.call('HSET', KEYS[1], 'sick', 1) end
elseif what == 'healthy' then
  -- Only a backend that could not be reached, and whose health check failed meanwhile, gets its probe early:
  -- a health check that succeeds while calls fail says nothing about the next call.
  if f[3] == 'down' and f[4] then
    until_ms = math.min(until_ms, now)
    redis.call('HSET', KEYS[1], 'until', until_ms)
    redis.call('HDEL', KEYS[1], 'sick')
  end
else
  redis.call('HINCRBY', KEYS[3], 'calls_failed', 1)
  if failures < threshold then
    failures = failures + 1
    if failures >= threshold then
      opened, until_ms = 1, now + tonumber(ARGV[6])
      if what == 'failed' then redis.call('HSET', KEYS[1], 'probe', now + tonumber(ARGV[11])) end
    elseif what == 'down' then
      until_ms = now + math.min(tonumber(ARGV[8]), tonumber(ARGV[7]) * 2 ^ (failures - 1))
    end
  elseif tonumber(ARGV[3]) == 0 then
    -- A probe failed. Calls that were sent before the breaker opened belong to the same incident and change nothing.
    failures, until_ms = failures + 1, now + tonumber(ARGV[6])
    redis.call('HDEL', KEYS[1], 'probe')
  end
  redis.call('HSET', KEYS[1], 'failures', failures, 'until', string.format('%.0f', until_ms), 'kind', what)
end
local m = redis.call('HMGET', KEYS[2], 'w', 'x', 'y', 'xx', 'xy')
local last_ok = redis.call('HGET', KEYS[3], 'last_ok') or '0'
return {failures, until_ms, opened, last_ok, m[1] or '0', m[2] or '0', m[3] or '0', m[4] or '0', m[5] or '0'}
