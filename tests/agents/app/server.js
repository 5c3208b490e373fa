// SPDX-License-Identifier: MIT
// Keeps notes in the database; always at :3000.
const crypto = require('crypto');
const http = require('http');
const {open} = require('./db');

const db = open();
const me = {
	agent : process.env.AGENT || 'seed',
	id : crypto.randomUUID()
};
const page = `<!doctype html><title>shop</title>
<button id="add" style="width: 300px; height: 90px">add a note</button>
<p id="said">nothing yet</p>
<script>
document.getElementById('add').onclick = async () => {
  await fetch('/notes', { method: 'POST', body: 'clicked' });
  const notes = await (await fetch('/notes')).json();
  document.getElementById('said').textContent =
    notes[notes.length - 1].author + ' ' + notes[notes.length - 1].body;
};
</script>`;

async function answer(req)
{
	if (req.url === '/')
		return page;
	if (req.url === '/whoami')
		return JSON.stringify(me);
	if (req.url !== '/notes')
		return null;
	if (req.method === 'POST') {
		let body = '';
		for await (const part of req)
			body += part;
		await db.query(
			'insert into notes (author, body) values ($1, $2)',
			[ me.agent, body ]);
	}
	const {rows} =
		await db.query('select author, body from notes order by id');
	return JSON.stringify(rows);
}

http.createServer((req, res) => {
	    answer(req).then(
		    (text) => {
			    res.writeHead(text === null ? 404 : 200, {
				    'content-type' :
					    req.url === '/' ? 'text/html'
							    : 'application/json'
			    });
			    res.end(text === null ? '' : text);
		    },
		    (err) => {
			    res.writeHead(500);
			    res.end(err.message);
		    });
    })
	.on('error',
	    (err) => {
		    console.log(`server: ${err.code}`);
		    process.exit(1);
	    })
	.listen(3000, () => console.log('listening'));
