-- Compare-and-set of a string.
-- KEYS[1] the key   ARGV  value seen ('' = absent), new value ('' = delete the key), ttl ms
-- Answers the current value.
local current = redis.call('GET', KEYS[1])
if (current or '') == ARGV[1] then
  if ARGV[2] == '' then
    redis.call('DEL', KEYS[1])
  else
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  end
  return ARGV[2]
end
return current
