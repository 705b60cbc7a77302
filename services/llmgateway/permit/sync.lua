-- Brings one replica's permits of a limit group up to date: what it keeps, what it gets, and what it has learned. The group is
-- a hash: 'group' is what all share, and each field 'r:<replica>' what that replica holds and wants, until it expires. Times
-- are Redis's own, in milliseconds. Classes are 1 interactive, 2 batch.
--
-- KEYS[1]  the group
-- ARGV[1]  the question, JSON; see question.go
-- Returns  the answer, JSON; see question.go

local q = cjson.decode(ARGV[1])
local key, me = KEYS[1], 'r:' .. q.id
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local g, mine, others = nil, nil, {}
local state = redis.call('HGETALL', key)
for i = 1, #state, 2 do
  local field, value = state[i], cjson.decode(state[i + 1])
  if field == 'group' then
    g = value
  elseif field == me then
    mine = value
  elseif value.e <= now then
    redis.call('HDEL', key, field)
  else
    value.id = field
    others[#others + 1] = value
  end
end
g = g or {
  a = newborn(), open = 0, seen = 0, at = 0, epoch = 0, pause = 0, credit = 0, used = {}, turns = {}, turn = {0, 0},
  levels = {0, 0, 0, 0}, batch_levels = {0, 0, 0, 0}, told = {0, 0, 0, 0}, told_at = {0, 0, 0, 0},
}

-- Nothing is known, or what is known is from before an outage: others may hold permits that stand nowhere. They have the
-- time to live to declare them. The buckets are empty then: what was admitted just before stands nowhere either.
if g.open == 0 or now - g.seen > q.ttl then
  g.open, g.epoch = now + q.ttl, now
  if q.alone then g.open = now end
  g.at, g.levels, g.batch_levels = g.open, {0, 0, 0, 0}, {0, 0, 0, 0}
end
if q.known and q.known.epoch ~= g.epoch then
  g.a.f, g.pause = math.min(g.a.f, q.known.f), math.max(g.pause, now + q.known.pause)
  if g.a.hit == 0 then g.a.hit = q.known.hit end
end
if not q.adaptive then g.a = newborn() end

-- The limits per minute as they are now, and the part of them that batch calls may use.
local function limits(part)
  local list = {}
  for d = 1, 4 do
    local limit = q.limits[d]
    if limit > 0 and g.told[d] > 0 then limit = math.min(limit, g.told[d]) end
    if limit > 0 then limit = math.max(1, limit * g.a.f) end
    list[d] = limit * part
  end
  return list
end

if q.rated and now > g.at then
  refill(g.levels, limits(1), now - g.at)
  refill(g.batch_levels, limits(1 - q.reserve), now - g.at)
  g.at = now
end
for d = 1, 4 do
  if now < g.open then
    q.back[d], q.batch_back[d] = math.min(0, q.back[d]), math.min(0, q.batch_back[d])
  end
  -- A limit that the provider tells is believed; a higher one only when the lower one has not been told for a while.
  local told = q.told[d]
  if told > 0 and (g.told[d] == 0 or told <= g.told[d] or now - g.told_at[d] > minute) then
    g.told[d], g.told_at[d] = told, now
  end
end
correct(g.levels, limits(1), q.back)
correct(g.batch_levels, limits(1 - q.reserve), q.batch_back)
for d = 1, 4 do
  if q.left[d] >= 0 then g.levels[d] = math.min(g.levels[d], q.left[d]) end
  if q.empty then g.levels[d], g.batch_levels[d] = math.min(0, g.levels[d]), math.min(0, g.batch_levels[d]) end
end
g.pause = math.max(g.pause, now + q.pause)

-- What is held and wanted by all, and the calls of others that wait for the buckets.
local kept, wanted, claims = {0, 0}, {q.want[1], q.want[2]}, {}
for _, r in ipairs(others) do
  for class = 1, 2 do
    kept[class], wanted[class] = kept[class] + r.k[class], wanted[class] + r.w[class]
  end
  for _, claim in ipairs(r.claims) do claims[#claims + 1] = claim end
end

-- Returns the share of the limits per minute that was used in the last minute, and whether it was watched from its beginning.
-- Notes what was used since the last time.
local function delivered()
  local slot, sums, rest, most = math.floor(now / 5000), {0, 0, 0, 0}, {}, 0
  local whole_minute = g.used[1] ~= nil and g.used[1][1] <= slot - 11
  for _, used in ipairs(g.used) do
    if used[1] == slot then
      for d = 1, 4 do q.used[d] = q.used[d] + used[d + 1] end
    elseif used[1] > slot - 12 then
      rest[#rest + 1] = used
    end
  end
  rest[#rest + 1] = {slot, q.used[1], q.used[2], q.used[3], q.used[4]}
  for _, used in ipairs(rest) do
    for d = 1, 4 do sums[d] = sums[d] + used[d + 1] end
  end
  for d = 1, 4 do
    if q.limits[d] > 0 then most = math.max(most, sums[d] / q.limits[d]) end
  end
  g.used = rest
  return math.min(1, most), whole_minute
end

local unlimited = 1e9
local function ceiling()
  if q.concurrency == 0 then return unlimited end
  return permits(g.a, q.concurrency)
end

-- Reports whether there is use for more than the ceiling allows.
local function busy()
  if wanted[1] + wanted[2] >= 0.8 * ceiling() or #claims > 0 then return true end
  local now_limits = limits(1)
  for d = 1, 4 do
    if now_limits[d] > 0 and g.levels[d] < capacity(now_limits[d], d) / 2 then return true end
  end
  return false
end

if q.adaptive then
  local x = {
    now = now, ok = q.ok, bad = q.bad, fresh = q.fresh, counts = q.counts and q.knew == g.a.cut, slow = q.slow, rated = q.rated, delivered = 0,
    busy = busy(), unit = q.concurrency, least = 1 / math.max(q.concurrency, q.limits[1], 1),
  }
  if q.concurrency == 0 then x.unit = math.max(8, q.limits[1] / 60) end
  if q.concurrency == 0 and q.limits[1] == 0 then x.least = 0.01 end
  if q.rated then x.delivered, x.whole = delivered() end
  g.pause = math.max(g.pause, now + learn(g.a, x))
end

-- Each class's part of the permits: interactive calls first, but never the last ones that batch calls are sure of, and batch
-- calls never those that are kept for interactive ones. A share of -1 means that nobody needs to hold back.
local top = ceiling()
local most_batch, sure = top, 0
if q.reserve > 0 then most_batch = math.max(1, math.floor(top * (1 - q.reserve) + 1e-6)) end
if q.reserve >= 1 then most_batch = 0 end
if q.floor > 0 and top >= 2 then
  sure = math.min(wanted[2], most_batch, math.max(1, math.floor(top * q.floor + 1e-6)))
end
local room = {top - sure, 0}
room[2] = math.min(most_batch, top - math.min(wanted[1], room[1]))
local replicas = {{id = me, d = q.demand}}
for _, r in ipairs(others) do replicas[#replicas + 1] = r end
local share, scarce = {-1, -1}, false
for class = 1, 2 do
  if wanted[class] > room[class] then
    share[class], scarce = portion(class, room[class], replicas, me, now), true
  end
end

-- Returns how many more permits of a class this replica may get, beyond those that it has and has just been given.
local got = {0, 0}
local function more(class)
  local has = q.keep[class] + got[class]
  local most = math.min(q.want[class] - has, top - kept[1] - kept[2] - q.keep[1] - q.keep[2] - got[1] - got[2])
  if share[class] >= 0 then most = math.min(most, share[class] - has) end
  if class == 2 then most = math.min(most, most_batch - kept[2] - has) end
  return most
end

-- Calls that wait for the buckets go in turns: by priority, then the tenant that has had least, then the one that has waited
-- longest. What has been had is counted in parts of a minute's limits, and who comes anew begins where the others are.
local all_limits, batch_limits = limits(1), limits(1 - q.reserve)
local function had(class, tenant) return math.max(g.turns[class .. ':' .. tenant] or 0, g.turn[class]) end

-- Batch calls come before interactive ones once they have been passed by often enough.
local function priority(class, need)
  if class == 1 then return 2 end
  if q.floor > 0 and g.credit >= weight(all_limits, need) then return 1 end
  return 3
end

local function before(a, b)
  local first, second = priority(a.c, a.n), priority(b.c, b.n)
  if first ~= second then return first < second end
  local less = had(a.c, a.t) - had(b.c, b.t)
  if math.abs(less) > 1e-9 then return less < 0 end
  if a.s ~= b.s then return a.s < b.s end
  return a.r < b.r
end

-- Returns how long a call has to wait for the buckets; 0 if it may go.
local function due(call)
  local ahead, batch_ahead = {0, 0, 0, 0}, {0, 0, 0, 0}
  for _, claim in ipairs(claims) do
    if before(claim, call) then
      for d = 1, 4 do
        ahead[d] = ahead[d] + claim.block[d]
        if claim.c == 2 then batch_ahead[d] = batch_ahead[d] + claim.block[d] end
      end
    end
  end
  local wait = delay(g.levels, all_limits, call.n, ahead)
  if call.c == 2 and q.reserve > 0 then wait = math.max(wait, delay(g.batch_levels, batch_limits, call.n, batch_ahead)) end
  return wait
end

local function batch_waits()
  if #q.needs[2] > got[2] then return true end
  for _, claim in ipairs(claims) do
    if claim.c == 2 then return true end
  end
  return false
end

local function admit(call)
  local part, name = weight(all_limits, call.n), call.c .. ':' .. call.t
  draw(g.levels, all_limits, call.n)
  if call.c == 2 then
    draw(g.batch_levels, batch_limits, call.n)
    if priority(2, call.n) == 1 then g.credit = g.credit - part end
  elseif q.floor > 0 and q.floor < 1 and batch_waits() then
    g.credit = g.credit + part * q.floor / (1 - q.floor)
  end
  local start = had(call.c, call.t)
  g.turn[call.c], g.turns[name] = math.max(g.turn[call.c], start), start + part
  got[call.c] = got[call.c] + 1
end

local function amounts(need) return {1, need.i + need.o, need.i, need.o} end

-- Returns what is to be left for the calls of a class that could not go: the first one's need, and those of the next ones as
-- far as they are a small part of the buckets. It is what they take as soon as their replica asks again.
local function block(class)
  local sum, first = {0, 0, 0, 0}, got[class] + 1
  for i = first, math.min(#q.needs[class], first + math.max(0, more(class) - 1)) do
    local need = amounts(q.needs[class][i])
    for d = 1, 4 do
      if i > first and all_limits[d] > 0 and sum[d] + need[d] > capacity(all_limits[d], d) / 4 then return sum end
    end
    for d = 1, 4 do sum[d] = sum[d] + need[d] end
  end
  return sum
end

-- Returns the next call of a class in this replica's line; nil if there is none, or no permit for it.
local function head(class)
  local need = q.needs[class][got[class] + 1]
  if not need or more(class) <= 0 then return nil end
  local since = now
  for _, claim in ipairs(mine and got[class] == 0 and mine.claims or {}) do
    if claim.c == class then since = claim.s end
  end
  return {c = class, t = need.t, s = since, r = me, n = amounts(need)}
end

local own, wait = {}, -1
local function admit_all()
  local refused = {false, false}
  while true do
    local first, second = not refused[1] and head(1) or nil, not refused[2] and head(2) or nil
    local call = first or second
    if first and second and priority(2, second.n) == 1 then call = second end
    if not call then return end
    local rest = due(call)
    if rest == 0 then
      admit(call)
    else
      call.block = block(call.c)
      refused[call.c], own[#own + 1], claims[#claims + 1] = true, call, call
      if wait < 0 or rest < wait then wait = rest end
    end
  end
end

if now >= g.open and now >= g.pause then
  if q.rated then
    if not batch_waits() then g.credit = 0 end
    admit_all()
  else
    for class = 1, 2 do got[class] = math.max(0, more(class)) end
  end
end
for name, had_so_far in pairs(g.turns) do
  if had_so_far <= g.turn[tonumber(string.sub(name, 1, 1))] then g.turns[name] = nil end
end

g.seen = now
local has = {q.keep[1] + got[1], q.keep[2] + got[2]}
redis.call('HSET', key, 'group', cjson.encode(g),
  me, cjson.encode({e = now + q.ttl, k = has, w = q.want, d = q.demand, claims = own}))
redis.call('PEXPIRE', key, 3600000)
if top == unlimited then top = 0 end
return cjson.encode({
  held = has, granted = got, share = share, scarce = scarce, wait = wait, pause = math.max(0, g.pause - now),
  closed = math.max(0, g.open - now), epoch = g.epoch, f = g.a.f, hit = g.a.hit, cut = g.a.cut, ceiling = top,
  in_flight = kept[1] + kept[2] + has[1] + has[2], levels = g.levels, limits = all_limits,
})
