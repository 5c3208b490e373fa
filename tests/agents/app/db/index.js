// SPDX-License-Identifier: MIT
// The database is at a fixed place, as in many a project.
const {Pool} = require('pg');

exports.open = () => new Pool({
	host : '127.0.0.1',
	port : 5432,
	user : process.env.PGUSER || 'postgres',
	database : 'postgres',
	max : 4,
});
