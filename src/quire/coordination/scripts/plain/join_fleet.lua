-- Announces a process and its protocol, unless a process runs that it can't work with.
-- KEYS[1] quire:protocols   ARGV  now ms, how long an announcement is valid ms, announcement
--       ('<protocol> <oldest protocol it works with> <process>'), protocol, oldest
-- Answers {'', announcement, its time, …} if announced, with the latest of each other pair of numbers that is announced,
-- else {the announcement of the other process}.
local now, kept = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - kept)
local announced, latest = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), {}
for i = 1, #announced, 2 do
  local protocol, oldest = string.match(announced[i], '^(%d+) (%d+) ')
  if protocol and (tonumber(protocol) < tonumber(ARGV[5]) or tonumber(oldest) > tonumber(ARGV[4])) then return {announced[i]} end
  if protocol and announced[i] ~= ARGV[3] then latest[protocol .. ' ' .. oldest] = i end
end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], 10 * kept)
local answer = {''}
for _, i in pairs(latest) do
  answer[#answer + 1] = announced[i]
  answer[#answer + 1] = announced[i + 1]
end
return answer
