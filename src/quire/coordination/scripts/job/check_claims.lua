-- Which of a worker's claims are still valid.
-- ARGV  unit, token, unit, token …
-- Answers 1 or 0 for each.
local answer = {}
for i = 1, #ARGV, 2 do
  local raw = redis.call('HGET', WORK, ARGV[i])
  answer[#answer + 1] = (raw and cjson.decode(raw).tk == ARGV[i + 1]) and 1 or 0
end
return answer
