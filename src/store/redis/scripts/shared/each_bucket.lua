-- Ends every script that works on buckets: runs the transition in each bucket of the call.

local function enter(n, first, last)
  ARGV = { CALL[1], unpack(CALL, first, last) }
  POOL, ATTEMPTS, BUCKET, TOPICS, BODIES = unpack(KEYS, 6 * n - 5, 6 * n - 1)
  TAG = string.sub(POOL, 1, -5)
  FOLLOWING = #KEYS / 6 - n
end

local buckets, first, replies = #KEYS / 6, 2, {}
for n = 1, buckets do
  local last = first + CALL[#CALL - buckets + n] - 1
  enter(n, first, last)
  local sound, reply = pcall(transition)
  if not sound then
    discard()
    reply = { err = error_text(reply) }
  end
  replies[n] = reply
  first = last + 1
end
return replies
