-- Sets a string if it still has the value it was seen with.
-- KEYS[1] the key   ARGV  value seen ('' = absent), new value ('' = none: the key goes), ttl ms
-- Answers the value that stands now.
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
