-- Announces a process and its protocol, unless a process runs that it can't work with.
-- KEYS[1] quire:protocols   ARGV  now ms, how long an announcement is valid ms, announcement
--       ('<protocol> <oldest protocol it works with> <process>'), protocol, oldest
-- Answers '' if announced, else the announcement of the other process.
local now, kept = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
for _, other in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local protocol, oldest = string.match(other, '^(%d+) (%d+) ')
  if protocol and (tonumber(protocol) < tonumber(ARGV[5]) or tonumber(oldest) > tonumber(ARGV[4])) then return other end
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], 10 * kept)
return ''
