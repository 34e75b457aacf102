-- Ends every script that works on buckets: runs the transition in each bucket of the call.

local buckets, first, replies = #KEYS / 7, 2, {}
for n = 1, buckets do
  local last = first + CALL[#CALL - buckets + n] - 1
  if buckets == 1 then
    -- After the number of arguments is removed, only the arguments of the single bucket are left.
    CALL[#CALL] = nil
    ARGV = CALL
  else
    ARGV = { CALL[1], unpack(CALL, first, last) }
  end
  POOL, ATTEMPTS, BUCKET, ENDS, TOPICS, BODIES = unpack(KEYS, 7 * n - 6, 7 * n - 1)
  TAG = string.sub(POOL, 1, -5)
  FOLLOWING, has_written = buckets - n, false
  local sound, reply = pcall(transition)
  if not sound then
    discard()
    reply = { err = (has_written and 'PARTLY ' or '') .. error_text(reply) }
  end
  replies[n] = reply
  first = last + 1
end
return replies
