-- Calls `act(id, attempt record, index of the id in ARGV)` for each job of a batch and commits. If an id is repeated,
-- its second call sees the results of the first.
local function each_job(stride, act)
  local ids, seen = {}, {}
  for i = 2, #ARGV, stride do ids[#ids + 1] = ARGV[i] end
  if #ids == 0 then return end
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    local text = texts[n]
    if seen[id] then
      commit()
      -- Uses HMGET, because the right to HGET may be missing, and the call may have changed jobs already.
      text = redis.call('HMGET', ATTEMPTS, id)[1]
    end
    seen[id] = true
    if act(id, text, 2 + (n - 1) * stride) == 'stop' then break end
  end
  commit()
end
