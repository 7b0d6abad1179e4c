create table people(id integer primary key, name text, city text, age integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
  insert into people select i, 'person ' || i, 'city ' || (i % 17), 20 + (i * 7) % 60 from n;
create index by_city on people(city, age);
select count(*), sum(age), min(name), max(name) from people;
select city, count(*), round(avg(age), 3) from people where age > 40 group by city having count(*) > 60 order by 3 desc, 1 limit 4;
update people set age = age + 1 where city = 'city 3';
delete from people where id % 3 = 0;
select a.name, b.name from people a join people b on a.age = b.age and a.id < b.id where a.city = 'city 5' order by a.id, b.id limit 3;
select group_concat(name, ', ') from (select name from people where name like '%99%' order by id limit 5);
select sum(i * i) over (order by i rows 2 preceding) from (select 1 i union all select 2 union all select 3 union all select 4);
select hex(zeroblob(2)), length(zeroblob(10)), typeof(1.5), cast('12abc' as integer), printf('%.3f', 2.0 / 3);
