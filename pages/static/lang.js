// The language of the page after it was switched without a reload: for the document (a screen reader takes it from there), and for
// the few words that Streamlit itself puts on a page, most of them unseen and heard by a screen reader, and has in English only.
{
  const KOREAN = [
    // [Streamlit's, ours]; {} stands for what varies.
    ["Skip to main content", "본문으로 건너뛰기"],
    ["Navigate to home page", "홈으로 가기"],
    ["App pages", "페이지 목록"],
    ["Logo", "로고"],
    ["Sidebar", "메뉴"],
    ["Expand sidebar", "메뉴 열기"],
    ["Collapse sidebar", "메뉴 닫기"],
    ["Scroll tabs left", "탭을 왼쪽으로 밀기"],
    ["Scroll tabs right", "탭을 오른쪽으로 밀기"],
    ["{} more", "더 보기 {}"],
    ["Link to heading", "이 제목으로 가는 링크"],
    ["Copy to clipboard", "복사하기"],
    ["Increment", "늘리기"],
    ["Decrement", "줄이기"],
    ["Open", "목록 열기"],
    ["Dismiss", "닫기"],
    ["Clear all", "모두 지우기"],
    ["Selected values", "고른 것"],
    ["Remove {}", "{} 빼기"],
    ["Choose an option", "하나를 고르세요"],
    ["Choose options", "고르세요"],
    ["No results", "찾은 것이 없습니다"],
    ["{} options available.", "고를 것이 {}개 있습니다."],
    ["{} option available.", "고를 것이 {}개 있습니다."],
    ["{}, selected.", "{}, 골랐습니다."],
    ["file upload", "파일 올리기"],
    ["Upload", "파일 고르기"],
  ];
  const HEARD = ["aria-label", "alt", "placeholder", "title"];
  // Where it writes text, so that nothing a lesson says is ever touched.
  const SEEN =
    "[data-testid=stSkipToContent], .rc-overflow-item-rest p, [data-testid=stFileUploaderDropzone] button p, " +
    "[data-testid=stSelectboxVirtualDropdown] span, [data-testid=stMultiSelectDropdown] span, [data-live-announcer] div";

  const rule = ([from, to]) => {
    const parts = from.split("{}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return [new RegExp(`^${parts.join("(.+)")}$`), to.replace("{}", "$1")];
  };
  const lang = document.currentScript.dataset.lang;
  const rules = KOREAN.map(([english, korean]) => rule(lang === "ko" ? [english, korean] : [korean, english]));

  const said = (text) => {
    const found = rules.find(([pattern]) => pattern.test(text));
    return found ? text.replace(...found) : text;
  };
  const hear = (element, name) => {
    const text = element.getAttribute(name);
    if (text && said(text) !== text) element.setAttribute(name, said(text));
  };
  const see = (node) => {
    if (node.parentElement?.matches(SEEN) && said(node.data) !== node.data) node.data = said(node.data);
  };
  const read = (root) => {
    for (const name of HEARD) for (const element of [root, ...root.querySelectorAll(`[${name}]`)]) hear(element, name);
    for (const element of [root, ...root.querySelectorAll(SEEN)]) for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) see(node);
  };

  document.documentElement.lang = lang;
  window.labWords?.disconnect();
  window.labWords = new MutationObserver((changes) => {
    for (const { type, target, attributeName, addedNodes } of changes) {
      if (type === "attributes") hear(target, attributeName);
      else if (type === "characterData") see(target);
      else for (const node of addedNodes) node.nodeType === Node.ELEMENT_NODE ? read(node) : node.nodeType === Node.TEXT_NODE && see(node);
    }
  });
  window.labWords.observe(document.documentElement, { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: HEARD });
  read(document.documentElement);
}
