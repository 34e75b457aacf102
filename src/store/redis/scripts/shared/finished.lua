-- Jobs that are kept after their end; codec.rs defines the form of their records.

-- Where a finish or delete leaves the job for its retention. The record has no body; `result` is '<checksum> <JSON>', or
-- nil. The outcome is a letter of codec.rs. Returns false if the old record is damaged.
local function keep_finished(id, job, state, topic, policy, outcome, result)
  local created_text, created = creation(redis.call('HGET', POOL, id) or '')
  if not created then return false end
  local rules, crc, text = job.rules, '0', ''
  if result then crc, text = string.match(result, '^(%x+) (.*)$') end
  local new_rules = format_rules(id, {
    crc = crc, length = #text, policy = policy, topic = topic,
    tail = string.format(' %d %d %s %s', job.count, job.due - created, job.reservation, outcome)
  })
  local is_long = #text > MAX_INLINE_BODY
  save('record', id, '5 ' .. created_text .. ' ' .. new_rules .. '\n' .. (is_long and '' or text))
  if is_long then
    save('body', id, text)
  elseif rules.length > MAX_INLINE_BODY then
    erase('body', id)
  end
  erase('attempt', id)
  leave_set(state, topic, id)
  join_set('finished', topic, id, NOW + parse_policy(policy).finished_retention)
  return true
end
