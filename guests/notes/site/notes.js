// Lists the notes by the JSON API, and uploads a file.
const list = document.getElementById("notes");
const said = document.getElementById("said");

async function show() {
  const answer = await fetch("/notes");
  const notes = await answer.json();
  list.replaceChildren(...notes.map(({ name, bytes }) => {
    const link = document.createElement("a");
    link.href = `/notes/${name}`;
    link.textContent = name;
    const item = document.createElement("li");
    item.append(link, ` ${bytes} bytes`);
    return item;
  }));
}

document.getElementById("file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  const name = file.name.replace(/[^A-Za-z0-9._-]/g, "_").replace(/^\.+/, "").slice(0, 64);
  const answer = await fetch(`/notes/${name}`, { method: "PUT", body: file });
  const about = await answer.json();
  said.textContent = about.error ?? `${about.name}: ${about.bytes} bytes`;
  await show();
});

show();
