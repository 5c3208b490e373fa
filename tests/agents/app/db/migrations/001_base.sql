create table customers (id int primary key, name text);
create table items (id int primary key, name text, price int);
create table notes (id serial primary key, author text, body text);
insert into customers select n, 'customer ' || n from generate_series(1, 500) n;
insert into items select n, 'item ' || n, n * 10 from generate_series(1, 1000) n;
insert into notes (author, body) values ('seed', 'the first');
