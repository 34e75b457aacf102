-- What follows is made only when it is needed: for the scripts that are called most.
return {
  find = find, locate = locate, state_of = state_of, search = search, judge = judge,
  parse_attempt = parse_attempt, parse_rules = parse_rules, rules_aside = rules_aside,
  take = take, place = place, place_due = place_due, commit = commit, leaves = leaves, name = name, note = note
}
