-- Records the outcome of a backend call in the breaker and in the model of service times.
-- KEYS  1 breaker, 2 model, 3 stats
-- ARGV  1 now ms, 2 'ok' | 'failed' | 'down' | 'healthy', 3 images, 4 seconds, 5 failures that open the breaker, 6 cooldown ms,
--       7 first backoff ms, 8 maximum backoff ms, 9 factor for older observations
-- Answers {failures in a row, not before ms, weight, Σsize, Σseconds, Σsize², Σsize·seconds}
local now, what = tonumber(ARGV[1]), ARGV[2]
local f = redis.call('HMGET', KEYS[1], 'failures', 'until')
local failures, until_ms = tonumber(f[1] or 0), tonumber(f[2] or 0)
if what == 'ok' then
  failures, until_ms = 0, 0
  redis.call('DEL', KEYS[1])
  local decay, x, y = tonumber(ARGV[9]), tonumber(ARGV[3]), tonumber(ARGV[4])
  local m = redis.call('HMGET', KEYS[2], 'w', 'x', 'y', 'xx', 'xy')
  local function sum(old, add) return string.format('%.9g', (tonumber(old or 0)) * decay + add) end
  redis.call('HSET', KEYS[2], 'w', sum(m[1], 1), 'x', sum(m[2], x), 'y', sum(m[3], y), 'xx', sum(m[4], x * x), 'xy', sum(m[5], x * y))
  redis.call('HINCRBY', KEYS[3], 'calls_ok', 1)
elseif what == 'healthy' then
  -- The probe batch may be sent now instead of at the end of the cooldown.
  until_ms = math.min(until_ms, now)
  redis.call('HSET', KEYS[1], 'until', until_ms)
else
  redis.call('HINCRBY', KEYS[3], 'calls_failed', 1)
  -- Calls that were sent before the breaker opened belong to the same incident.
  if failures < tonumber(ARGV[5]) or until_ms <= now then
    failures = failures + 1
    if failures >= tonumber(ARGV[5]) then
      until_ms = now + tonumber(ARGV[6])
    elseif what == 'down' then
      until_ms = now + math.min(tonumber(ARGV[8]), tonumber(ARGV[7]) * 2 ^ (failures - 1))
    end
    redis.call('HSET', KEYS[1], 'failures', failures, 'until', string.format('%.0f', until_ms))
    redis.call('HDEL', KEYS[1], 'probe')
  end
end
local m = redis.call('HMGET', KEYS[2], 'w', 'x', 'y', 'xx', 'xy')
return {failures, until_ms, m[1] or '0', m[2] or '0', m[3] or '0', m[4] or '0', m[5] or '0'}
