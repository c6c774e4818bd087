-- Which of a worker's claims are still valid.
-- ARGV  unit, epoch, token, unit, epoch, token …
-- Answers 1 or 0 for each.
local answer = {}
for i = 1, #ARGV, 3 do
  local entry = wanted(ARGV[i], tonumber(ARGV[i + 1]))
  answer[#answer + 1] = (entry and entry.tk == ARGV[i + 2]) and 1 or 0
end
return answer
