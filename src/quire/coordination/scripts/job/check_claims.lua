-- Which of a worker's claims are still valid. A unit that has lost its claim and has no owner is claimed again: the server
-- may have lost its last second, or the worker was taken for dead and its unit not yet claimed by another.
-- ARGV  owner, then for each claim: unit, epoch, token
-- Answers 1 or 0 for each.
local owner, answer = ARGV[1], {}
for i = 2, #ARGV, 3 do
  local entry = wanted(ARGV[i], tonumber(ARGV[i + 1]))
  if entry and entry.o == '' then
    entry.o, entry.tk = owner, ARGV[i + 2]
    redis.call('HSET', WORK, ARGV[i], cjson.encode(entry))
  end
  answer[#answer + 1] = (entry and entry.tk == ARGV[i + 2]) and 1 or 0
end
return answer
