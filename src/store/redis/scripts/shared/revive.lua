-- Gathers the writes that make a dead job ready, except that it leaves its set: its attempts start from zero, and it
-- expires counted from now. `text` is its attempt record. Returns its rules; nil if they are damaged.
local function revive(id, text, rules, topic)
  if may_have_history(text) then save('attempt', id, 'h') else erase('attempt', id) end
  if rules and rules.expires_after then
    local record, text_of_rules = redis.call('HGET', POOL, id), nil
    record, text_of_rules = with_policy(id, record or '', rules, expire_from(rules.policy, NOW))
    if record then
      save('record', id, record)
      rules = parse_rules(id, text_of_rules)
    end
  end
  join_set('ready', topic, id, NOW, rules)
  return rules
end
