-- One exchange of one replica with one bucket. All times are microseconds of this server's clock.
-- KEYS[1]: when the bucket will be full. KEYS[2]: the replicas, by when they were last here. KEYS[3]: the number of this
-- replica's last exchange. ARGV: replica, number, capacity, taken.
local replica, number, capacity, taken = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local alive, remember = 90 * 1000000, 120 * 1000

local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local function int(n) return string.format('%.0f', n) end

local lacks = math.max((tonumber(redis.call('GET', KEYS[1])) or 0) - now, 0)
if taken ~= 0 and number > (tonumber(redis.call('GET', KEYS[3])) or 0) then
	lacks = math.min(math.max(lacks + taken, 0), 2 * capacity)
	if lacks > 0 then
		redis.call('SET', KEYS[1], int(now + lacks), 'PX', int(math.ceil(lacks / 1000)))
	else
		redis.call('DEL', KEYS[1])
	end
	redis.call('SET', KEYS[3], int(number), 'PX', remember)
end
redis.call('ZADD', KEYS[2], int(now), replica)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. int(now - alive))
redis.call('PEXPIRE', KEYS[2], alive / 1000)
return {int(lacks), redis.call('ZCARD', KEYS[2])}
