// SPDX-License-Identifier: MIT
const http = require('http');
const {open} = require('../db');
const rates = require('../lib/rates');
const expected = require('../expect.json');

let db;
beforeAll(() => { db = open(); });
afterAll(() => db.end());

function ask(method, path, body)
{
	return new Promise((resolve, reject) => {
		const req = http.request(
			{port : 3000, host : '127.0.0.1', method, path},
			(res) => {
				let text = '';
				res.on('data', (part) => { text += part; });
				res.on('end', () => resolve(JSON.parse(text)));
			});
		req.on('error', reject);
		req.end(body);
	});
}

test('rates', () => { expect(rates).toEqual(expected.rates); });

test('the tables are those of the migrations', async () => {
	const {rows} = await db.query(`select table_name as t, column_name as c
     from information_schema.columns where table_schema = 'public'
     order by t, c`);
	const tables = {};
	for (const {t, c} of rows)
		(tables[t] = tables[t] || []).push(c);
	expect(tables).toEqual(expected.tables);
});

test('the rows are those of the migrations', async () => {
	for (const [table, count] of Object.entries(expected.rows)) {
		const {rows} = await db.query(
			`select count(*)::int as n from ${table}`);
		expect({table, count : rows[0].n}).toEqual({table, count});
	}
});

test('the server is ours and keeps notes in our database', async () => {
	const {agent} = await ask('GET', '/whoami');
	expect(agent).toBe(process.env.AGENT || 'seed');
	const before = await ask('GET', '/notes');
	const after = await ask('POST', '/notes', `by ${agent}`);
	expect(after).toEqual(
		[...before, {author : agent, body : `by ${agent}`} ]);
	const authors = new Set(after.map((note) => note.author));
	expect([...authors ].sort()).toEqual([...expected.authors ].sort());
});
