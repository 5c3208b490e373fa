// SPDX-License-Identifier: MIT
// Applies those of migrations/*.sql that the database has not seen.
const fs = require('fs');
const path = require('path');
const {open} = require('.');

async function migrate(folder)
{
	const db = open();
	await db.query('create schema if not exists meta');
	await db.query('create table if not exists meta.applied (name text)');
	const {rows} = await db.query('select name from meta.applied');
	const seen = new Set(rows.map((row) => row.name));
	for (const name of fs.readdirSync(folder).sort()) {
		if (seen.has(name))
			continue;
		await db.query(
			fs.readFileSync(path.join(folder, name), 'utf8'));
		await db.query('insert into meta.applied values ($1)',
			       [ name ]);
		console.log(`applied ${name}`);
	}
	await db.end();
}

migrate(path.join(__dirname, 'migrations')).catch((err) => {
	console.error(`migrate: ${err.message}`);
	process.exit(1);
});
