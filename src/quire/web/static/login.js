// Signing in: with the dashboard's password, or with an API key for this tab.

import { access, session } from "./service.js";

const at = (id) => document.getElementById(id);

/** Shows the dialog until the user has signed in, with the reason why a key was refused; resolves to true. */
export async function signIn(refused) {
  const known = await session.current();
  return new Promise((resolve) => {
    const dialog = at("login"), form = at("login-form"), error = at("login-error"), other = at("login-other");
    let byKey = !known.sign_in;

    function draw() {
      at("login-password").hidden = byKey;
      at("login-key").hidden = !byKey;
      other.hidden = !(known.sign_in && known.keys);
      other.textContent = byKey ? "Use the password instead" : "Use an API key instead";
      at("login-why").textContent = byKey ? "The key decides whose documents are shown." : "With the name and the password of this service.";
      at("login-user").required = at("login-secret").required = !byKey;
      at("login-token").required = byKey;
      error.textContent = "";
      (byKey ? at("login-token") : at("login-user")).focus();
    }

    async function submit(event) {
      event.preventDefault();
      const button = form.querySelector("[type=submit]");
      button.disabled = true;
      error.textContent = "";
      try {
        if (byKey) access.use(at("login-token").value.trim());
        else {
          access.use("");
          await session.begin(at("login-user").value.trim(), at("login-secret").value);
        }
        done();
      } catch (failure) {
        const wait = failure.retryAfter ? ` (${Math.ceil(failure.retryAfter)} s)` : "";
        error.textContent = failure.message + wait;
        at("login-secret").select();
      }
      button.disabled = false;
    }

    const turn = () => { byKey = !byKey; draw(); };
    const stay = (event) => event.preventDefault(); // there is nothing to go back to
    form.addEventListener("submit", submit);
    other.addEventListener("click", turn);
    dialog.addEventListener("cancel", stay);

    function done() {
      form.removeEventListener("submit", submit);
      other.removeEventListener("click", turn);
      dialog.removeEventListener("cancel", stay);
      at("login-secret").value = at("login-token").value = "";
      dialog.close();
      window.dispatchEvent(new CustomEvent("signed-in"));
      resolve(true);
    }

    dialog.showModal();
    draw();
    error.textContent = refused;
  });
}
