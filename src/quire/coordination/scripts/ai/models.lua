-- The state of each model, for display.
-- KEYS  1 clock, then for each model: its provider's breaker, its own, its leases, rpm, tpm
-- ARGV  1 now ms ('' = the server's own clock), then for each model: rpm, tpm
-- Answers for each model: incidents of its provider, ms until its next probe, its last failure, then the same of the model,
--       in flight, cap, rpm, requests in the meter, tpm, tokens in the meter, calls that went well, calls that failed
local now = read_clock(ARGV[1], redis.call('GET', KEYS[1]))
local answer = {}
local function append(...)
  for _, one in ipairs({...}) do answer[#answer + 1] = type(one) == 'number' and string.format('%.3f', one) or one end
end
for i = 0, (#KEYS - 1) / 5 - 1 do
  local k, a = 1 + 5 * i, 1 + 2 * i
  local wide, b = read_breaker(redis.call('GET', KEYS[k + 1])), read_breaker(redis.call('GET', KEYS[k + 2]))
  local rpm, tpm = stricter(tonumber(ARGV[a + 1]), b[SEEN_RPM]), stricter(tonumber(ARGV[a + 2]), b[SEEN_TPM])
  local requests = rpm > 0 and read_bucket(redis.call('GET', KEYS[k + 4]), rpm, 0, 1, now) or 0
  local tokens = tpm > 0 and read_bucket(redis.call('GET', KEYS[k + 5]), tpm, 0, 0, now) or 0
  local out = redis.call('ZCOUNT', KEYS[k + 3], '(' .. string.format('%.0f', now), '+inf')
  append(wide[N], math.max(0, wide[UNTIL] - now), wide[CODE], b[N], math.max(0, b[UNTIL] - now), b[CODE], out, b[CAP],
    rpm, requests, tpm, tokens, b[OK], b[BAD])
end
return answer
